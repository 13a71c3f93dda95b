# The gateway with all its optional parts, without a compiler and without the sources.
#
#   docker build --tag dragoman .
#   docker run --rm --read-only --tmpfs /tmp --volume dragoman:/var/lib/dragoman \
#     --publish 127.0.0.1:8080:8080 dragoman
#
# docs/operations.md describes how to configure and run it.

FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY adapters adapters
COPY gateway gateway
RUN python -m venv /opt/dragoman && /opt/dragoman/bin/pip install --no-cache-dir '.[tokens,tracing]'

FROM python:3.13-slim-bookworm
COPY --from=build /opt/dragoman /opt/dragoman
COPY deploy/health_check.py /opt/dragoman/health_check.py
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin dragoman \
    && install --directory --owner dragoman --group dragoman --mode 0700 /var/lib/dragoman
ENV PATH=/opt/dragoman/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DRAGOMAN_HOST=0.0.0.0 \
    DRAGOMAN_PORT=8080
# A number, because Kubernetes cannot check that a name is not that of root.
USER 10001:10001
# The working directory has the SQLite file, unless another database is configured.
WORKDIR /var/lib/dragoman
VOLUME /var/lib/dragoman
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "/opt/dragoman/health_check.py"]
ENTRYPOINT ["dragoman"]
CMD ["serve"]
