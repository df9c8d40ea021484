# SPDX-License-Identifier: Apache-2.0
"""The text of a dcgm-exporter, in the format of version 3."""

EXPORTED = """\
# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-11111111-aaaa",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="535.129.03",container="main",namespace="team",pod="train-0"} 1410
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-11111111-aaaa",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="535.129.03",container="main",namespace="team",pod="train-0"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-22222222-bbbb",device="nvidia1",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="535.129.03",container="main",namespace="team",pod="notebook-0"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-33333333-cccc",device="nvidia2",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",DCGM_FI_DRIVER_VERSION="535.129.03"} 0
DCGM_FI_DEV_GPU_UTIL{gpu="3",UUID="GPU-44444444-dddd",device="nvidia3",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="node-1",container="main",namespace="team",pod="mig-0"} 0
# HELP DCGM_FI_PROF_GR_ENGINE_ACTIVE Ratio of time the graphics engine is active.
# TYPE DCGM_FI_PROF_GR_ENGINE_ACTIVE gauge
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-11111111-aaaa",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1",container="main",namespace="team",pod="train-0"} 0.512345
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="3",UUID="GPU-44444444-dddd",device="nvidia3",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb",GPU_I_ID="7",Hostname="node-1",container="main",namespace="team",pod="mig-0"} 0.250000
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="3",UUID="GPU-44444444-dddd",device="nvidia3",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb",GPU_I_ID="8",Hostname="node-1",container="main",namespace="team",pod="mig-1"} 0.000000
"""  # noqa: E501
