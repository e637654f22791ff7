# The scheduler's image: Python, the locked dependencies, and Berth; no compiler, no pip of its own, and of development tools
# only flit_core, which has built the wheels and which nothing comes with.
# It runs as an unprivileged numeric user, and writes nowhere but to /tmp, so that its root file system may be read-only.
# The image of the page has NiceGUI, too: docker build --build-arg LOCK=requirements-page.lock
ARG PYTHON_IMAGE=python:3.13-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG LOCK=requirements.lock
WORKDIR /src
COPY requirements.lock requirements-page.lock ./
RUN python -m venv --without-pip /opt/berth
RUN python -m pip --python /opt/berth/bin/python install --no-cache-dir --require-hashes --only-binary :all: --requirement ${LOCK}
COPY packages ./packages
RUN set -e; for house in scheduler workloads workbench cluster kueue; do /opt/berth/bin/python -m flit_core.wheel --outdir /wheels packages/$house; done
RUN python -m pip --python /opt/berth/bin/python install --no-cache-dir --no-deps --no-index /wheels/*.whl
COPY --chmod=755 deploy/image/kube-scheduler /opt/berth/bin/kube-scheduler

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/berth /opt/berth
ENV PATH=/opt/berth/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["berth"]
CMD ["run"]
