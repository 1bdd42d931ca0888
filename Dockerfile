# A broker in a container. docs/running-as-a-service.md says how it is run.
#
#   docker build -t cordwood .
#   docker run -v cordwood-data:/data -p 127.0.0.1:7878:7878 cordwood serve --host 0.0.0.0 --insecure

FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY packaging/runtime_lock.py packaging/
# Only what a broker needs, with the versions and hashes of the lock; this layer stays while the lock does.
RUN ["python", "-m", "venv", "/opt/cordwood"]
RUN ["sh", "-ec", "python packaging/runtime_lock.py > runtime.lock && /opt/cordwood/bin/pip install --no-cache-dir --require-hashes -r runtime.lock"]
# The lock pins hatchling, too, for the build.
RUN ["sh", "-ec", "python packaging/runtime_lock.py --of hatchling > build.lock && pip install --no-cache-dir --require-hashes -r build.lock"]
COPY src src
RUN ["sh", "-ec", "pip wheel --no-deps --no-build-isolation --wheel-dir wheels . && /opt/cordwood/bin/pip install --no-deps --no-index wheels/*.whl && rm -rf /opt/cordwood/bin/pip* /opt/cordwood/lib/python3.11/site-packages/pip*"]

FROM python:3.11-slim-bookworm
RUN ["useradd", "--system", "--uid", "10001", "--no-create-home", "--shell", "/usr/sbin/nologin", "cordwood"]
RUN ["install", "--directory", "--owner=cordwood", "--group=cordwood", "--mode=0700", "/data"]
COPY --from=build /opt/cordwood /opt/cordwood
ENV PATH=/opt/cordwood/bin:$PATH PYTHONUNBUFFERED=1 CORDWOOD_DATA=/data
USER cordwood
WORKDIR /
VOLUME ["/data"]
EXPOSE 7878
# SIGTERM finishes what was accepted; give it the time: docker stop --time 60.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:7878/v1/healthz', timeout=4)"]
ENTRYPOINT ["cordwood"]
CMD ["serve"]
