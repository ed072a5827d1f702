# The service of zgul: docker compose up, or docker build -t zgul . && docker run -p 127.0.0.1:8000:8000 zgul
# A build of torch without CUDA libraries is several gigabytes smaller: pytorch.org shows the address of its index,
# which goes into the argument TORCH_INDEX.

FROM python:3.12-slim AS build
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 ZGUL_CACHE=/opt/cache
RUN python -m venv /opt/zgul
ENV PATH=/opt/zgul/bin:$PATH
WORKDIR /build
COPY constraints.txt ./
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} -c constraints.txt torch
COPY pyproject.toml README.md LICENSE LICENSE-DATA.md ./
COPY src ./src
RUN pip install -c constraints.txt ".[serve]"
# A sentence for each tagger unpacks the encoder and makes the tagger ready in the cache. The service writes nothing, so
# without this every start would decode all taggers in memory.
RUN for tagger in src/zgul/shipped/*/; do \
        zgul tag --lang fo --model "$(basename "$tagger")" --format tsv "Hetta er ein lítil roynd." || exit 1; \
    done

FROM python:3.12-slim
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin zgul
COPY --from=build /opt /opt
ENV PATH=/opt/zgul/bin:$PATH ZGUL_CACHE=/opt/cache PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["zgul", "serve", "--host", "0.0.0.0", "--port", "8000", "--no-open"]
