# SPDX-License-Identifier: Apache-2.0
# The controller as an image: docker build -t kuota:0.1.0 .
# It runs as a user without rights on a root that may be read-only, and starts no shell. /manager is
# the program that Kueue's own Deployment starts, so that changing the image is enough.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
WORKDIR /build
RUN python -m venv --without-pip /opt/kuota
COPY requirements.lock ./
# Everything is pinned by its hash; wheels only, so that nothing is compiled or run here.
RUN pip --python /opt/kuota/bin/python install --no-cache-dir --disable-pip-version-check \
    --only-binary :all: --require-hashes -r requirements.lock
COPY src/kuota ./kuota
# A read-only root cannot keep compiled modules, so they are compiled here.
RUN packages="$(/opt/kuota/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    && cp -r kuota "$packages" \
    && python -m compileall -q --invalidation-mode unchecked-hash "$packages" \
    && chmod -R a+rX /opt/kuota

FROM python:${PYTHON}-slim
COPY --from=build /opt/kuota /opt/kuota
COPY --chmod=0755 image/manager /manager
USER 65532:65532
WORKDIR /
# 9443 webhooks, 8443 metrics, 8082 visibility, 8081 probes
EXPOSE 9443 8443 8082 8081
ENTRYPOINT ["/manager"]
