# Berth as images: `server` (web, worker, gate, gateway, migrate), `proxy` (the notebook proxy) and,
# for pods of people, `notebook` (JupyterLab; it also signs people in before ports of containers)
# and `serving`, `serving-tensorflow`, `serving-pytorch` (model servers of endpoints).
#
#   docker build --target server   -t berth/server .
#   docker build --target proxy    -t berth/proxy .
#   docker build --target notebook -t berth/notebook .
#   docker build --target serving  -t berth/serving .
#
# Every package of Python and Node comes from lock files with hashes. Berth's own two hold no
# compiler, no package manager of Python or Node in use, and run as a number without a name.
ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm
ARG NODE_IMAGE=docker.io/library/node:22-bookworm-slim

# --- front-end files and the notebook proxy -------------------------------------------------------
FROM ${NODE_IMAGE} AS packages
WORKDIR /srv/berth
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# what only browsers load has no place beside the proxy
RUN mkdir /srv/proxy && cp -r node_modules /srv/proxy/node_modules \
    && cd /srv/proxy/node_modules && rm -rf @fontsource-variable @tabler @xterm uplot htmx* .bin

# --- Python packages --------------------------------------------------------------------------------
FROM ${PYTHON_IMAGE} AS environment
# dataplane.txt: the same image copies data and serves files as the tenant. Python finds the code
# without PYTHONPATH, which -I does not read.
COPY requirements/server.txt requirements/dataplane.txt /tmp/
RUN python3 -m venv /opt/berth \
    && for list in server dataplane; do \
       /opt/berth/bin/pip install --no-cache-dir --no-compile --only-binary :all: \
       --require-hashes -r /tmp/$list.txt || exit 1; done \
    && echo /srv/berth > "$(echo /opt/berth/lib/python3.*/site-packages)/berth.pth" \
    && /opt/berth/bin/pip uninstall -q -y setuptools pip \
    && /opt/berth/bin/python -m compileall -q -j 2 /opt/berth/lib

# --- the portal with its translations and collected files ---------------------------------------------
FROM environment AS portal
WORKDIR /srv/berth
COPY . .
COPY --from=packages /srv/berth/node_modules node_modules
RUN /opt/berth/bin/pybabel -q compile -f -D django -d locale \
    && BERTH_STATIC_DIR=/srv/static BERTH_VAR=/tmp/var BERTH_SECRET_KEY=only-to-collect-files \
       BERTH_PUBLIC_URL=http://localhost DJANGO_SETTINGS_MODULE=portal.settings.prod \
       /opt/berth/bin/python manage.py collectstatic --noinput -v 0 \
    && rm -rf node_modules static package.json package-lock.json .npmrc deploy requirements \
       Dockerfile .dockerignore proxy \
    && /opt/berth/bin/python -m compileall -q -j 2 .

# --- image: server -------------------------------------------------------------------------------------
FROM ${PYTHON_IMAGE} AS server
# git fetches the code of jobs, over ssh too
RUN (command -v tini && command -v git && command -v ssh) > /dev/null || (apt-get update -qq \
    && apt-get install -qq -y --no-install-recommends tini git openssh-client \
    && rm -rf /var/lib/apt/lists/*)
COPY --from=environment /opt/berth /opt/berth
COPY --from=portal /srv/static /srv/static
COPY --from=portal /srv/berth /srv/berth
COPY deploy/bin/ /usr/local/bin/
# open, because some container engines mount a tmpfs here with this mode and root as its owner
RUN groupadd -g 10001 berth && useradd -u 10001 -g berth -d /var/lib/berth -s /usr/sbin/nologin berth \
    && mkdir -p -m 1777 /var/lib/berth && chown berth:berth /var/lib/berth
ENV PATH=/opt/berth/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/srv/berth:/srv/berth/cli \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    MALLOC_ARENA_MAX=2 \
    HOME=/var/lib/berth \
    DJANGO_SETTINGS_MODULE=portal.settings.prod \
    BERTH_VAR=/var/lib/berth \
    BERTH_STATIC_DIR=/srv/static \
    BERTH_LOCAL_CLUSTER=no \
    BERTH_BIND=0.0.0.0 \
    BERTH_INTERNAL_BIND=0.0.0.0 \
    BERTH_GATE_INTERNAL_BIND=0.0.0.0
WORKDIR /srv/berth
USER 10001:10001
STOPSIGNAL SIGTERM
EXPOSE 8000 8002 8004 8005 8006 8007
ENTRYPOINT ["tini", "--", "berth-server"]
CMD ["web"]

# --- image: proxy ---------------------------------------------------------------------------------------
FROM ${NODE_IMAGE} AS proxy
RUN command -v tini > /dev/null || (apt-get update -qq \
    && apt-get install -qq -y --no-install-recommends tini && rm -rf /var/lib/apt/lists/*)
COPY --from=packages /srv/proxy/node_modules /srv/berth/node_modules
COPY package.json /srv/berth/package.json
COPY proxy /srv/berth/proxy
ENV NODE_ENV=production
WORKDIR /srv/berth
USER 10001:10001
EXPOSE 8001 8003
ENTRYPOINT ["tini", "--", "node", "proxy/berth-proxy.mjs", "--ip", "0.0.0.0", "--api-ip", "0.0.0.0"]

# --- image: notebook ------------------------------------------------------------------------------------
FROM ${PYTHON_IMAGE} AS lab
COPY requirements/image-jupyterlab.txt /tmp/
RUN python3 -m venv /opt/jupyter \
    && /opt/jupyter/bin/pip install --no-cache-dir --only-binary :all: \
       --require-hashes -r /tmp/image-jupyterlab.txt
COPY requirements/jupyterlab-overrides.json \
     /opt/jupyter/share/jupyter/lab/settings/overrides.json

FROM ${PYTHON_IMAGE} AS notebook
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends ca-certificates curl git \
    less openssh-client procps tini vim-tiny && rm -rf /var/lib/apt/lists/*
COPY --from=lab /opt/jupyter /opt/jupyter
# as pods of people are run: option run_as_user of the cluster
RUN groupadd -g 1000 berth && useradd -m -u 1000 -g berth -d /home/berth -s /bin/bash berth
ENV PATH=/opt/jupyter/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/home/berth \
    LANG=C.UTF-8 \
    SHELL=/bin/bash
WORKDIR /home/berth
USER 1000:1000
EXPOSE 8888
ENTRYPOINT ["tini", "--"]
CMD ["jupyterhub-singleuser", "--ip=0.0.0.0", "--port=8888"]

# --- images: model servers ------------------------------------------------------------------------------
FROM scratch AS model-server-program
COPY serving/__init__.py /serving/
COPY serving/programs /serving/programs

FROM ${PYTHON_IMAGE} AS model-server
# OpenMP, for LightGBM
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends libgomp1 tini \
    && rm -rf /var/lib/apt/lists/*
# A model may be a program: it begins as the same number as people's pods.
RUN groupadd -g 1000 berth && useradd -m -u 1000 -g berth -d /home/berth -s /usr/sbin/nologin berth \
    && python3 -m venv /opt/serving \
    && echo /opt/program > "$(echo /opt/serving/lib/python3.*/site-packages)/berth.pth"
ENV PATH=/opt/serving/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/home/berth \
    LANG=C.UTF-8 \
    PIP_NO_CACHE_DIR=yes \
    PIP_ONLY_BINARY=:all: \
    PIP_REQUIRE_HASHES=yes
WORKDIR /home/berth
EXPOSE 8080
ENTRYPOINT ["tini", "--", "python3", "-I", "-m", "serving.programs.model_server"]

# An image each: the libraries of PyTorch alone are 5 GB.
FROM model-server AS serving
COPY requirements/serving.txt /tmp/
RUN pip install -r /tmp/serving.txt
COPY --from=model-server-program /serving /opt/program/serving
USER 1000:1000

FROM model-server AS serving-tensorflow
COPY requirements/serving-tensorflow.txt /tmp/
RUN pip install -r /tmp/serving-tensorflow.txt
COPY --from=model-server-program /serving /opt/program/serving
USER 1000:1000

FROM model-server AS serving-pytorch
COPY requirements/serving-pytorch.txt /tmp/
RUN pip install -r /tmp/serving-pytorch.txt
COPY --from=model-server-program /serving /opt/program/serving
USER 1000:1000
