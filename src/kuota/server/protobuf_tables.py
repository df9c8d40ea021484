# SPDX-License-Identifier: Apache-2.0
"""Wire facts of Kubernetes' built-in kinds, in the notation of `kuota.server.wire`.

Written by scripts/protobuf_tables.py from Kubernetes' public declarations; do not edit.
"""

KINDS = """\
v1 Binding ConfigMap Event LimitRange Namespace Node Pod ResourceQuota Secret Service ServiceAccount
apps/v1 ControllerRevision Deployment ReplicaSet StatefulSet
batch/v1 CronJob Job
events.k8s.io/v1 Event=EventsEvent
coordination.k8s.io/v1 Lease
scheduling.k8s.io/v1 PriorityClass
node.k8s.io/v1 RuntimeClass
authorization.k8s.io/v1 SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
authentication.k8s.io/v1 SelfSubjectReview TokenRequest TokenReview
rbac.authorization.k8s.io/v1 RoleBinding
policy/v1 Eviction
autoscaling/v1 Scale
meta.k8s.io/v1 DeleteOptions
"""

MESSAGES = """\
OwnerReference% apiVersion:5s! kind:1s! name:3s! uid:4s! controller:6*b blockOwnerDeletion:7*b
ManagedFieldsEntry manager:1s operation:2s apiVersion:3s time:4*Time fieldsType:6s
 fieldsV1:7*FieldsV1 subresource:8s
ObjectMeta name:1s generateName:2s namespace:3s selfLink:4s uid:5s resourceVersion:6s
 generation:7i creationTimestamp:8Time deletionTimestamp:9*Time deletionGracePeriodSeconds:10*i
 labels:11{}s annotations:12{}s ownerReferences:13[]OwnerReference@uid#uid finalizers:14[]s@#
 managedFields:17[]ManagedFieldsEntry
ObjectReference% kind:1s namespace:2s name:3s uid:4s apiVersion:5s resourceVersion:6s fieldPath:7s
Binding metadata:1ObjectMeta target:2ObjectReference!
ConfigMap metadata:1ObjectMeta immutable:4*b data:2{}s binaryData:3{}y
EventSource component:1s host:2s
EventSeries count:1i lastObservedTime:2MicroTime
Event metadata:1ObjectMeta! involvedObject:2ObjectReference! reason:3s message:4s
 source:5EventSource firstTimestamp:6Time lastTimestamp:7Time count:8i type:9s
 eventTime:10MicroTime series:11*EventSeries action:12s related:13*ObjectReference
 reportingComponent:14s! reportingInstance:15s!
LimitRangeItem type:1s! max:2{}Quantity min:3{}Quantity default:4{}Quantity
 defaultRequest:5{}Quantity maxLimitRequestRatio:6{}Quantity
LimitRangeSpec limits:1[]LimitRangeItem!
LimitRange metadata:1ObjectMeta spec:2LimitRangeSpec
NamespaceSpec finalizers:1[]s
NamespaceCondition type:1s! status:2s! lastTransitionTime:4Time reason:5s message:6s
NamespaceStatus phase:1s conditions:2[]NamespaceCondition@type#type
Namespace metadata:1ObjectMeta spec:2NamespaceSpec status:3NamespaceStatus
Taint key:1s! value:2s effect:3s! timeAdded:4*Time
ConfigMapNodeConfigSource namespace:1s! name:2s! uid:3s resourceVersion:4s kubeletConfigKey:5s!
NodeConfigSource configMap:2*ConfigMapNodeConfigSource
NodeSpec podCIDR:1s podCIDRs:7[]s@# providerID:3s unschedulable:4b taints:5[]Taint
 configSource:6*NodeConfigSource externalID:2s
NodeCondition type:1s! status:2s! lastHeartbeatTime:3Time lastTransitionTime:4Time reason:5s
 message:6s
NodeAddress type:1s! address:2s!
DaemonEndpoint Port:1i!
NodeDaemonEndpoints kubeletEndpoint:1DaemonEndpoint
NodeSwapStatus capacity:1*i
NodeSystemInfo machineID:1s! systemUUID:2s! bootID:3s! kernelVersion:4s! osImage:5s!
 containerRuntimeVersion:6s! kubeletVersion:7s! kubeProxyVersion:8s! operatingSystem:9s!
 architecture:10s! swap:11*NodeSwapStatus
ContainerImage names:1[]s! sizeBytes:2i
AttachedVolume name:1s! devicePath:2s!
NodeConfigStatus assigned:1*NodeConfigSource active:2*NodeConfigSource
 lastKnownGood:3*NodeConfigSource error:4s
NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:1*b userNamespaces:2*b
NodeRuntimeHandler name:1s! features:2*NodeRuntimeHandlerFeatures
NodeFeatures supplementalGroupsPolicy:1*b
NodeStatus capacity:1{}Quantity allocatable:2{}Quantity phase:3s
 conditions:4[]NodeCondition@type#type addresses:5[]NodeAddress@type#type
 daemonEndpoints:6NodeDaemonEndpoints nodeInfo:7NodeSystemInfo images:8[]ContainerImage
 volumesInUse:9[]s volumesAttached:10[]AttachedVolume config:11*NodeConfigStatus
 runtimeHandlers:12[]NodeRuntimeHandler features:13*NodeFeatures declaredFeatures:14[]s
Node metadata:1ObjectMeta spec:2NodeSpec status:3NodeStatus
HostPathVolumeSource path:1s! type:2*s
EmptyDirVolumeSource medium:1s sizeLimit:2*Quantity
GCEPersistentDiskVolumeSource pdName:1s! fsType:2s partition:3i readOnly:4b
AWSElasticBlockStoreVolumeSource volumeID:1s! fsType:2s partition:3i readOnly:4b
GitRepoVolumeSource repository:1s! revision:2s directory:3s
KeyToPath key:1s! path:2s! mode:3*i
SecretVolumeSource secretName:1s items:2[]KeyToPath defaultMode:3*i optional:4*b
NFSVolumeSource server:1s! path:2s! readOnly:3b
LocalObjectReference% name:1s
ISCSIVolumeSource targetPortal:1s! iqn:2s! lun:3i! iscsiInterface:4s fsType:5s readOnly:6b
 portals:7[]s chapAuthDiscovery:8b chapAuthSession:11b secretRef:10*LocalObjectReference
 initiatorName:12*s
GlusterfsVolumeSource endpoints:1s! path:2s! readOnly:3b
PersistentVolumeClaimVolumeSource claimName:1s! readOnly:2b
RBDVolumeSource monitors:1[]s! image:2s! fsType:3s pool:4s user:5s keyring:6s
 secretRef:7*LocalObjectReference readOnly:8b
FlexVolumeSource driver:1s! fsType:2s secretRef:3*LocalObjectReference readOnly:4b options:5{}s
CinderVolumeSource volumeID:1s! fsType:2s readOnly:3b secretRef:4*LocalObjectReference
CephFSVolumeSource monitors:1[]s! path:2s user:3s secretFile:4s secretRef:5*LocalObjectReference
 readOnly:6b
FlockerVolumeSource datasetName:1s datasetUUID:2s
ObjectFieldSelector% apiVersion:1s fieldPath:2s!
ResourceFieldSelector% containerName:1s resource:2s! divisor:3Quantity
DownwardAPIVolumeFile path:1s! fieldRef:2*ObjectFieldSelector
 resourceFieldRef:3*ResourceFieldSelector mode:4*i
DownwardAPIVolumeSource items:1[]DownwardAPIVolumeFile defaultMode:2*i
FCVolumeSource targetWWNs:1[]s lun:2*i fsType:3s readOnly:4b wwids:5[]s
AzureFileVolumeSource secretName:1s! shareName:2s! readOnly:3b
ConfigMapVolumeSource :1LocalObjectReference items:2[]KeyToPath defaultMode:3*i optional:4*b
VsphereVirtualDiskVolumeSource volumePath:1s! fsType:2s storagePolicyName:3s storagePolicyID:4s
QuobyteVolumeSource registry:1s! volume:2s! readOnly:3b user:4s group:5s tenant:6s
AzureDiskVolumeSource diskName:1s! diskURI:2s! cachingMode:3*s fsType:4*s readOnly:5*b kind:6*s
PhotonPersistentDiskVolumeSource pdID:1s! fsType:2s
SecretProjection :1LocalObjectReference items:2[]KeyToPath optional:4*b
DownwardAPIProjection items:1[]DownwardAPIVolumeFile
ConfigMapProjection :1LocalObjectReference items:2[]KeyToPath optional:4*b
ServiceAccountTokenProjection audience:1s expirationSeconds:2*i path:3s!
LabelSelectorRequirement key:1s! operator:2s! values:3[]s
LabelSelector% matchLabels:1{}s matchExpressions:2[]LabelSelectorRequirement
ClusterTrustBundleProjection name:1*s signerName:2*s labelSelector:3*LabelSelector optional:5*b
 path:4s!
PodCertificateProjection signerName:1s keyType:2s maxExpirationSeconds:3*i credentialBundlePath:4s
 keyPath:5s certificateChainPath:6s userAnnotations:7{}s
VolumeProjection secret:1*SecretProjection downwardAPI:2*DownwardAPIProjection
 configMap:3*ConfigMapProjection serviceAccountToken:4*ServiceAccountTokenProjection
 clusterTrustBundle:5*ClusterTrustBundleProjection podCertificate:6*PodCertificateProjection
ProjectedVolumeSource sources:1[]VolumeProjection! defaultMode:2*i
PortworxVolumeSource volumeID:1s! fsType:2s readOnly:3b
ScaleIOVolumeSource gateway:1s! system:2s! secretRef:3*LocalObjectReference! sslEnabled:4b
 protectionDomain:5s storagePool:6s storageMode:7s volumeName:8s fsType:9s readOnly:10b
StorageOSVolumeSource volumeName:1s volumeNamespace:2s fsType:3s readOnly:4b
 secretRef:5*LocalObjectReference
CSIVolumeSource driver:1s! readOnly:2*b fsType:3*s volumeAttributes:4{}s
 nodePublishSecretRef:5*LocalObjectReference
VolumeResourceRequirements limits:1{}Quantity requests:2{}Quantity
TypedLocalObjectReference% apiGroup:1*s! kind:2s! name:3s!
TypedObjectReference apiGroup:1*s! kind:2s! name:3s! namespace:4*s
PersistentVolumeClaimSpec accessModes:1[]s selector:4*LabelSelector
 resources:2VolumeResourceRequirements volumeName:3s storageClassName:5*s volumeMode:6*s
 dataSource:7*TypedLocalObjectReference dataSourceRef:8*TypedObjectReference
 volumeAttributesClassName:9*s
PersistentVolumeClaimTemplate metadata:1ObjectMeta spec:2PersistentVolumeClaimSpec!
EphemeralVolumeSource volumeClaimTemplate:1*PersistentVolumeClaimTemplate
ImageVolumeSource reference:1s pullPolicy:2s
VolumeSource hostPath:1*HostPathVolumeSource emptyDir:2*EmptyDirVolumeSource
 gcePersistentDisk:3*GCEPersistentDiskVolumeSource
 awsElasticBlockStore:4*AWSElasticBlockStoreVolumeSource gitRepo:5*GitRepoVolumeSource
 secret:6*SecretVolumeSource nfs:7*NFSVolumeSource iscsi:8*ISCSIVolumeSource
 glusterfs:9*GlusterfsVolumeSource persistentVolumeClaim:10*PersistentVolumeClaimVolumeSource
 rbd:11*RBDVolumeSource flexVolume:12*FlexVolumeSource cinder:13*CinderVolumeSource
 cephfs:14*CephFSVolumeSource flocker:15*FlockerVolumeSource
 downwardAPI:16*DownwardAPIVolumeSource fc:17*FCVolumeSource azureFile:18*AzureFileVolumeSource
 configMap:19*ConfigMapVolumeSource vsphereVolume:20*VsphereVirtualDiskVolumeSource
 quobyte:21*QuobyteVolumeSource azureDisk:22*AzureDiskVolumeSource
 photonPersistentDisk:23*PhotonPersistentDiskVolumeSource projected:26*ProjectedVolumeSource
 portworxVolume:24*PortworxVolumeSource scaleIO:25*ScaleIOVolumeSource
 storageos:27*StorageOSVolumeSource csi:28*CSIVolumeSource ephemeral:29*EphemeralVolumeSource
 image:30*ImageVolumeSource
Volume name:1s! :2VolumeSource
ContainerPort name:1s hostPort:2i containerPort:3i! protocol:4s=TCP hostIP:5s
ConfigMapEnvSource :1LocalObjectReference optional:2*b
SecretEnvSource :1LocalObjectReference optional:2*b
EnvFromSource prefix:1s configMapRef:2*ConfigMapEnvSource secretRef:3*SecretEnvSource
ConfigMapKeySelector% :1LocalObjectReference key:2s! optional:3*b
SecretKeySelector% :1LocalObjectReference key:2s! optional:3*b
FileKeySelector% volumeName:1s! path:2s! key:3s! optional:4*b
EnvVarSource fieldRef:1*ObjectFieldSelector resourceFieldRef:2*ResourceFieldSelector
 configMapKeyRef:3*ConfigMapKeySelector secretKeyRef:4*SecretKeySelector
 fileKeyRef:5*FileKeySelector
EnvVar name:1s! value:2s valueFrom:3*EnvVarSource
ResourceClaim name:1s! request:2s
ResourceRequirements limits:1{}Quantity requests:2{}Quantity claims:3[]ResourceClaim#name
ContainerResizePolicy resourceName:1s! restartPolicy:2s!
ContainerRestartRuleOnExitCodes operator:1s values:2[]i#
ContainerRestartRule action:1s exitCodes:2*ContainerRestartRuleOnExitCodes
VolumeMount name:1s! readOnly:2b recursiveReadOnly:7*s mountPath:3s! subPath:4s
 mountPropagation:5*s subPathExpr:6s
VolumeDevice name:1s! devicePath:2s!
ExecAction command:1[]s
HTTPHeader name:1s! value:2s!
HTTPGetAction path:1s port:2IntOrString! host:3s scheme:4s httpHeaders:5[]HTTPHeader
TCPSocketAction port:1IntOrString! host:2s
GRPCAction port:1i! service:2*s!
ProbeHandler exec:1*ExecAction httpGet:2*HTTPGetAction tcpSocket:3*TCPSocketAction
 grpc:4*GRPCAction
Probe :1ProbeHandler initialDelaySeconds:2i timeoutSeconds:3i periodSeconds:4i successThreshold:5i
 failureThreshold:6i terminationGracePeriodSeconds:7*i
SleepAction seconds:1i!
LifecycleHandler exec:1*ExecAction httpGet:2*HTTPGetAction tcpSocket:3*TCPSocketAction
 sleep:4*SleepAction
Lifecycle postStart:1*LifecycleHandler preStop:2*LifecycleHandler stopSignal:3*s
Capabilities add:1[]s drop:2[]s
SELinuxOptions user:1s role:2s type:3s level:4s
WindowsSecurityContextOptions gmsaCredentialSpecName:1*s gmsaCredentialSpec:2*s runAsUserName:3*s
 hostProcess:4*b
SeccompProfile type:1s! localhostProfile:2*s
AppArmorProfile type:1s! localhostProfile:2*s
SecurityContext capabilities:1*Capabilities privileged:2*b seLinuxOptions:3*SELinuxOptions
 windowsOptions:10*WindowsSecurityContextOptions runAsUser:4*i runAsGroup:8*i runAsNonRoot:5*b
 readOnlyRootFilesystem:6*b allowPrivilegeEscalation:7*b procMount:9*s
 seccompProfile:11*SeccompProfile appArmorProfile:12*AppArmorProfile
Container name:1s! image:2s command:3[]s args:4[]s workingDir:5s
 ports:6[]ContainerPort@containerPort#containerPort,protocol envFrom:19[]EnvFromSource
 env:7[]EnvVar@name#name resources:8ResourceRequirements resizePolicy:23[]ContainerResizePolicy
 restartPolicy:24*s restartPolicyRules:25[]ContainerRestartRule
 volumeMounts:9[]VolumeMount@mountPath#mountPath
 volumeDevices:21[]VolumeDevice@devicePath#devicePath livenessProbe:10*Probe
 readinessProbe:11*Probe startupProbe:22*Probe lifecycle:12*Lifecycle terminationMessagePath:13s
 terminationMessagePolicy:20s imagePullPolicy:14s securityContext:15*SecurityContext stdin:16b
 stdinOnce:17b tty:18b
EphemeralContainerCommon name:1s! image:2s command:3[]s args:4[]s workingDir:5s
 ports:6[]ContainerPort@containerPort#containerPort,protocol envFrom:19[]EnvFromSource
 env:7[]EnvVar@name#name resources:8ResourceRequirements resizePolicy:23[]ContainerResizePolicy
 restartPolicy:24*s restartPolicyRules:25[]ContainerRestartRule
 volumeMounts:9[]VolumeMount@mountPath#mountPath
 volumeDevices:21[]VolumeDevice@devicePath#devicePath livenessProbe:10*Probe
 readinessProbe:11*Probe startupProbe:22*Probe lifecycle:12*Lifecycle terminationMessagePath:13s
 terminationMessagePolicy:20s imagePullPolicy:14s securityContext:15*SecurityContext stdin:16b
 stdinOnce:17b tty:18b
EphemeralContainer :1EphemeralContainerCommon targetContainerName:2s
Sysctl name:1s! value:2s!
PodSecurityContext seLinuxOptions:1*SELinuxOptions windowsOptions:8*WindowsSecurityContextOptions
 runAsUser:2*i runAsGroup:6*i runAsNonRoot:3*b supplementalGroups:4[]i
 supplementalGroupsPolicy:12*s fsGroup:5*i sysctls:7[]Sysctl fsGroupChangePolicy:9*s
 seccompProfile:10*SeccompProfile appArmorProfile:11*AppArmorProfile seLinuxChangePolicy:13*s
NodeSelectorRequirement key:1s! operator:2s! values:3[]s
NodeSelectorTerm% matchExpressions:1[]NodeSelectorRequirement
 matchFields:2[]NodeSelectorRequirement
NodeSelector% nodeSelectorTerms:1[]NodeSelectorTerm!
PreferredSchedulingTerm weight:1i! preference:2NodeSelectorTerm!
NodeAffinity requiredDuringSchedulingIgnoredDuringExecution:1*NodeSelector
 preferredDuringSchedulingIgnoredDuringExecution:2[]PreferredSchedulingTerm
PodAffinityTerm labelSelector:1*LabelSelector namespaces:2[]s topologyKey:3s!
 namespaceSelector:4*LabelSelector matchLabelKeys:5[]s mismatchLabelKeys:6[]s
WeightedPodAffinityTerm weight:1i! podAffinityTerm:2PodAffinityTerm!
PodAffinity requiredDuringSchedulingIgnoredDuringExecution:1[]PodAffinityTerm
 preferredDuringSchedulingIgnoredDuringExecution:2[]WeightedPodAffinityTerm
PodAntiAffinity requiredDuringSchedulingIgnoredDuringExecution:1[]PodAffinityTerm
 preferredDuringSchedulingIgnoredDuringExecution:2[]WeightedPodAffinityTerm
Affinity nodeAffinity:1*NodeAffinity podAffinity:2*PodAffinity podAntiAffinity:3*PodAntiAffinity
Toleration key:1s operator:2s value:3s effect:4s tolerationSeconds:5*i
HostAlias ip:1s! hostnames:2[]s
PodDNSConfigOption name:1s value:2*s
PodDNSConfig nameservers:1[]s searches:2[]s options:3[]PodDNSConfigOption
PodReadinessGate conditionType:1s!
TopologySpreadConstraint maxSkew:1i! topologyKey:2s! whenUnsatisfiable:3s!
 labelSelector:4*LabelSelector minDomains:5*i nodeAffinityPolicy:6*s nodeTaintsPolicy:7*s
 matchLabelKeys:8[]s
PodOS name:1s!
PodSchedulingGate name:1s!
PodResourceClaim name:1s! resourceClaimName:3*s resourceClaimTemplateName:4*s
PodSchedulingGroup podGroupName:1*s
PodSpec volumes:1[]Volume@name^#name initContainers:20[]Container@name#name
 containers:2[]Container!@name#name ephemeralContainers:34[]EphemeralContainer@name#name
 restartPolicy:3s terminationGracePeriodSeconds:4*i activeDeadlineSeconds:5*i dnsPolicy:6s
 nodeSelector:7{}s% serviceAccountName:8s serviceAccount:9s automountServiceAccountToken:21*b
 nodeName:10s hostNetwork:11b hostPID:12b hostIPC:13b shareProcessNamespace:27*b
 securityContext:14*PodSecurityContext imagePullSecrets:15[]LocalObjectReference@name#name
 hostname:16s subdomain:17s affinity:18*Affinity schedulerName:19s tolerations:22[]Toleration
 hostAliases:23[]HostAlias@ip#ip priorityClassName:24s priority:25*i dnsConfig:26*PodDNSConfig
 readinessGates:28[]PodReadinessGate runtimeClassName:29*s enableServiceLinks:30*b
 preemptionPolicy:31*s overhead:32{}Quantity
 topologySpreadConstraints:33[]TopologySpreadConstraint@topologyKey#topologyKey,whenUnsatisfiable
 setHostnameAsFQDN:35*b os:36*PodOS hostUsers:37*b schedulingGates:38[]PodSchedulingGate@name#name
 resourceClaims:39[]PodResourceClaim@name^#name resources:40*ResourceRequirements
 hostnameOverride:41*s schedulingGroup:43*PodSchedulingGroup
PodCondition type:1s! observedGeneration:7i status:2s! lastProbeTime:3Time
 lastTransitionTime:4Time reason:5s message:6s
HostIP ip:1s!
PodIP ip:1s!
ContainerStateWaiting reason:1s message:2s
ContainerStateRunning startedAt:1Time
ContainerStateTerminated exitCode:1i! signal:2i reason:3s message:4s startedAt:5Time
 finishedAt:6Time containerID:7s
ContainerState waiting:1*ContainerStateWaiting running:2*ContainerStateRunning
 terminated:3*ContainerStateTerminated
ImageVolumeStatus imageRef:1s
VolumeStatus image:1*ImageVolumeStatus
VolumeMountStatus name:1s! mountPath:2s! readOnly:3b recursiveReadOnly:4*s
 volumeStatus:5*VolumeStatus
LinuxContainerUser uid:1i! gid:2i! supplementalGroups:3[]i
ContainerUser linux:1*LinuxContainerUser
ResourceHealth resourceID:1s! health:2s message:6*s
ResourceStatus name:1s! resources:2[]ResourceHealth#resourceID
ContainerStatus name:1s! state:2ContainerState lastState:3ContainerState ready:4b!
 restartCount:5i! image:6s! imageID:7s! containerID:8s started:9*b allocatedResources:10{}Quantity
 resources:11*ResourceRequirements volumeMounts:12[]VolumeMountStatus@mountPath#mountPath
 user:13*ContainerUser allocatedResourcesStatus:14[]ResourceStatus@name#name stopSignal:15*s
PodResourceClaimStatus name:1s! resourceClaimName:2*s
ContainerExtendedResourceRequest containerName:1s! resourceName:2s! requestName:3s!
PodExtendedResourceClaimStatus requestMappings:1[]ContainerExtendedResourceRequest!
 resourceClaimName:2s!
NodeAllocatableResourceClaimStatus resourceClaimName:1s! containers:2[]s# resources:3{}Quantity!
PodStatus observedGeneration:17i phase:1s conditions:2[]PodCondition@type#type message:3s
 reason:4s nominatedNodeName:11s hostIP:5s hostIPs:16[]HostIP@ip podIP:6s podIPs:12[]PodIP@ip#ip
 startTime:7*Time initContainerStatuses:10[]ContainerStatus containerStatuses:8[]ContainerStatus
 qosClass:9s ephemeralContainerStatuses:13[]ContainerStatus resize:14s
 resourceClaimStatuses:15[]PodResourceClaimStatus@name^#name
 extendedResourceClaimStatus:18*PodExtendedResourceClaimStatus allocatedResources:19{}Quantity
 resources:20*ResourceRequirements
 nodeAllocatableResourceClaimStatuses:21[]NodeAllocatableResourceClaimStatus
Pod metadata:1ObjectMeta spec:2PodSpec status:3PodStatus
ScopedResourceSelectorRequirement scopeName:1s! operator:2s! values:3[]s
ScopeSelector% matchExpressions:1[]ScopedResourceSelectorRequirement
ResourceQuotaSpec hard:1{}Quantity scopes:2[]s scopeSelector:3*ScopeSelector
ResourceQuotaStatus hard:1{}Quantity used:2{}Quantity
ResourceQuota metadata:1ObjectMeta spec:2ResourceQuotaSpec status:3ResourceQuotaStatus
Secret metadata:1ObjectMeta immutable:5*b data:2{}y stringData:4{}s type:3s
ServicePort name:1s protocol:2s=TCP appProtocol:6*s port:3i! targetPort:4IntOrString nodePort:5i
ClientIPConfig timeoutSeconds:1*i
SessionAffinityConfig clientIP:1*ClientIPConfig
ServiceSpec ports:1[]ServicePort@port#port,protocol selector:2{}s% clusterIP:3s clusterIPs:18[]s
 type:4s externalIPs:5[]s sessionAffinity:7s loadBalancerIP:8s loadBalancerSourceRanges:9[]s
 externalName:10s externalTrafficPolicy:11s healthCheckNodePort:12i publishNotReadyAddresses:13b
 sessionAffinityConfig:14*SessionAffinityConfig ipFamilies:19[]s ipFamilyPolicy:17*s
 allocateLoadBalancerNodePorts:20*b loadBalancerClass:21*s internalTrafficPolicy:22*s
 trafficDistribution:23*s
PortStatus port:1i! protocol:2s! error:3*s
LoadBalancerIngress ip:1s hostname:2s ipMode:3*s ports:4[]PortStatus
LoadBalancerStatus ingress:1[]LoadBalancerIngress
Condition type:1s! status:2s! observedGeneration:3i lastTransitionTime:4Time! reason:5s!
 message:6s!
ServiceStatus loadBalancer:1LoadBalancerStatus conditions:2[]Condition@type#type
Service metadata:1ObjectMeta spec:2ServiceSpec status:3ServiceStatus
ServiceAccount metadata:1ObjectMeta secrets:2[]ObjectReference@name#name
 imagePullSecrets:3[]LocalObjectReference automountServiceAccountToken:4*b
ControllerRevision metadata:1ObjectMeta data:2RawExtension revision:3i!
PodTemplateSpec metadata:1ObjectMeta spec:2PodSpec
RollingUpdateDeployment maxUnavailable:1*IntOrString maxSurge:2*IntOrString
DeploymentStrategy type:1s rollingUpdate:2*RollingUpdateDeployment
DeploymentSpec replicas:1*i selector:2*LabelSelector! template:3PodTemplateSpec!
 strategy:4DeploymentStrategy^ minReadySeconds:5i revisionHistoryLimit:6*i paused:7b
 progressDeadlineSeconds:9*i
DeploymentCondition type:1s! status:2s! lastUpdateTime:6Time lastTransitionTime:7Time reason:4s
 message:5s
DeploymentStatus observedGeneration:1i replicas:2i updatedReplicas:3i readyReplicas:7i
 availableReplicas:4i unavailableReplicas:5i terminatingReplicas:9*i
 conditions:6[]DeploymentCondition@type#type collisionCount:8*i
Deployment metadata:1ObjectMeta spec:2DeploymentSpec status:3DeploymentStatus
ReplicaSetSpec replicas:1*i minReadySeconds:4i selector:2*LabelSelector! template:3PodTemplateSpec
ReplicaSetCondition type:1s! status:2s! lastTransitionTime:3Time reason:4s message:5s
ReplicaSetStatus replicas:1i! fullyLabeledReplicas:2i readyReplicas:4i availableReplicas:5i
 terminatingReplicas:7*i observedGeneration:3i conditions:6[]ReplicaSetCondition@type#type
ReplicaSet metadata:1ObjectMeta spec:2ReplicaSetSpec status:3ReplicaSetStatus
PersistentVolumeClaimCondition type:1s! status:2s! lastProbeTime:3Time lastTransitionTime:4Time
 reason:5s message:6s
ModifyVolumeStatus targetVolumeAttributesClassName:1s status:2s!
PersistentVolumeClaimStatus phase:1s accessModes:2[]s capacity:3{}Quantity
 conditions:4[]PersistentVolumeClaimCondition@type#type allocatedResources:5{}Quantity
 allocatedResourceStatuses:7{}s currentVolumeAttributesClassName:8*s
 modifyVolumeStatus:9*ModifyVolumeStatus
PersistentVolumeClaim metadata:1ObjectMeta spec:2PersistentVolumeClaimSpec
 status:3PersistentVolumeClaimStatus
RollingUpdateStatefulSetStrategy partition:1*i maxUnavailable:2*IntOrString
StatefulSetUpdateStrategy type:1s rollingUpdate:2*RollingUpdateStatefulSetStrategy
StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted:1s whenScaled:2s
StatefulSetOrdinals start:1i!
StatefulSetSpec replicas:1*i selector:2*LabelSelector! template:3PodTemplateSpec!
 volumeClaimTemplates:4[]PersistentVolumeClaim serviceName:5s! podManagementPolicy:6s
 updateStrategy:7StatefulSetUpdateStrategy revisionHistoryLimit:8*i minReadySeconds:9i
 persistentVolumeClaimRetentionPolicy:10*StatefulSetPersistentVolumeClaimRetentionPolicy
 ordinals:11*StatefulSetOrdinals
StatefulSetCondition type:1s! status:2s! lastTransitionTime:3Time reason:4s message:5s
StatefulSetStatus observedGeneration:1i replicas:2i! readyReplicas:3i currentReplicas:4i
 updatedReplicas:5i currentRevision:6s updateRevision:7s collisionCount:9*i
 conditions:10[]StatefulSetCondition@type#type availableReplicas:11i!
StatefulSet metadata:1ObjectMeta spec:2StatefulSetSpec status:3StatefulSetStatus
PodFailurePolicyOnExitCodesRequirement containerName:1*s operator:2s! values:3[]i!#
PodFailurePolicyOnPodConditionsPattern type:1s! status:2s!
PodFailurePolicyRule action:1s! onExitCodes:2*PodFailurePolicyOnExitCodesRequirement
 onPodConditions:3[]PodFailurePolicyOnPodConditionsPattern
PodFailurePolicy rules:1[]PodFailurePolicyRule!
SuccessPolicyRule succeededIndexes:1*s succeededCount:2*i
SuccessPolicy rules:1[]SuccessPolicyRule!
JobSpec parallelism:1*i completions:2*i activeDeadlineSeconds:3*i
 podFailurePolicy:11*PodFailurePolicy successPolicy:16*SuccessPolicy backoffLimit:7*i
 backoffLimitPerIndex:12*i maxFailedIndexes:13*i selector:4*LabelSelector manualSelector:5*b
 template:6PodTemplateSpec! ttlSecondsAfterFinished:8*i completionMode:9*s suspend:10*b
 podReplacementPolicy:14*s managedBy:15*s
JobTemplateSpec metadata:1ObjectMeta spec:2JobSpec
CronJobSpec schedule:1s! timeZone:8*s startingDeadlineSeconds:2*i concurrencyPolicy:3s suspend:4*b
 jobTemplate:5JobTemplateSpec! successfulJobsHistoryLimit:6*i failedJobsHistoryLimit:7*i
CronJobStatus active:1[]ObjectReference lastScheduleTime:4*Time lastSuccessfulTime:5*Time
CronJob metadata:1ObjectMeta spec:2CronJobSpec status:3CronJobStatus
JobCondition type:1s! status:2s! lastProbeTime:3Time lastTransitionTime:4Time reason:5s message:6s
UncountedTerminatedPods succeeded:1[]s# failed:2[]s#
JobStatus conditions:1[]JobCondition@type startTime:2*Time completionTime:3*Time active:4i
 succeeded:5i failed:6i terminating:11*i completedIndexes:7s failedIndexes:10*s
 uncountedTerminatedPods:8*UncountedTerminatedPods ready:9*i
Job metadata:1ObjectMeta spec:2JobSpec status:3JobStatus
EventsEventSeries count:1i! lastObservedTime:2MicroTime!
EventsEvent metadata:1ObjectMeta! eventTime:2MicroTime! series:3*EventsEventSeries
 reportingController:4s reportingInstance:5s action:6s reason:7s regarding:8ObjectReference
 related:9*ObjectReference note:10s type:11s deprecatedSource:12EventSource
 deprecatedFirstTimestamp:13Time deprecatedLastTimestamp:14Time deprecatedCount:15i
LeaseSpec holderIdentity:1*s leaseDurationSeconds:2*i acquireTime:3*MicroTime
 renewTime:4*MicroTime leaseTransitions:5*i strategy:6*s preferredHolder:7*s
Lease metadata:1ObjectMeta spec:2LeaseSpec
PriorityClass metadata:1ObjectMeta value:2i! globalDefault:3b description:4s preemptionPolicy:5*s
Overhead podFixed:1{}Quantity
Scheduling nodeSelector:1{}s% tolerations:2[]Toleration
RuntimeClass metadata:1ObjectMeta handler:2s! overhead:3*Overhead scheduling:4*Scheduling
FieldSelectorRequirement key:1s! operator:2s! values:3[]s
FieldSelectorAttributes rawSelector:1s requirements:2[]FieldSelectorRequirement
LabelSelectorAttributes rawSelector:1s requirements:2[]LabelSelectorRequirement
ResourceAttributes namespace:1s verb:2s group:3s version:4s resource:5s subresource:6s name:7s
 fieldSelector:8*FieldSelectorAttributes labelSelector:9*LabelSelectorAttributes
NonResourceAttributes path:1s verb:2s
SelfSubjectAccessReviewSpec resourceAttributes:1*ResourceAttributes
 nonResourceAttributes:2*NonResourceAttributes
SubjectAccessReviewStatus allowed:1b! denied:4b reason:2s evaluationError:3s
SelfSubjectAccessReview metadata:1ObjectMeta spec:2SelfSubjectAccessReviewSpec!
 status:3SubjectAccessReviewStatus
SelfSubjectRulesReviewSpec namespace:1s
ResourceRule verbs:1[]s! apiGroups:2[]s resources:3[]s resourceNames:4[]s
NonResourceRule verbs:1[]s! nonResourceURLs:2[]s
SubjectRulesReviewStatus resourceRules:1[]ResourceRule! nonResourceRules:2[]NonResourceRule!
 incomplete:3b! evaluationError:4s
SelfSubjectRulesReview metadata:1ObjectMeta spec:2SelfSubjectRulesReviewSpec!
 status:3SubjectRulesReviewStatus
SubjectAccessReviewSpec resourceAttributes:1*ResourceAttributes
 nonResourceAttributes:2*NonResourceAttributes user:3s groups:4[]s extra:5{}Items uid:6s
SubjectAccessReview metadata:1ObjectMeta spec:2SubjectAccessReviewSpec!
 status:3SubjectAccessReviewStatus
UserInfo username:1s uid:2s groups:3[]s extra:4{}Items
SelfSubjectReviewStatus userInfo:1UserInfo
SelfSubjectReview metadata:1ObjectMeta status:2SelfSubjectReviewStatus
BoundObjectReference kind:1s apiVersion:2s name:3s uid:4s
TokenRequestSpec audiences:1[]s! expirationSeconds:4*i! boundObjectRef:3*BoundObjectReference!
TokenRequestStatus token:1s! expirationTimestamp:2Time!
TokenRequest metadata:1ObjectMeta spec:2TokenRequestSpec! status:3TokenRequestStatus
TokenReviewSpec token:1s audiences:2[]s
TokenReviewStatus authenticated:1b user:2UserInfo audiences:4[]s error:3s
TokenReview metadata:1ObjectMeta spec:2TokenReviewSpec! status:3TokenReviewStatus
Subject% kind:1s! apiGroup:2s name:3s! namespace:4s
RoleRef% apiGroup:1s! kind:2s! name:3s!
RoleBinding metadata:1ObjectMeta subjects:2[]Subject roleRef:3RoleRef!
Preconditions uid:1*s resourceVersion:2*s
DeleteOptions gracePeriodSeconds:1*i preconditions:2*Preconditions orphanDependents:3*b
 propagationPolicy:4*s dryRun:5[]s ignoreStoreReadErrorWithClusterBreakingPotential:6*b
Eviction metadata:1ObjectMeta deleteOptions:2*DeleteOptions
ScaleSpec replicas:1i
ScaleStatus replicas:1i! selector:2s
Scale metadata:1ObjectMeta spec:2ScaleSpec status:3ScaleStatus
"""
