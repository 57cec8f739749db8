# docker build -t live-eval . && docker run --rm live-eval
# To keep the runs: docker run --rm --volume live-eval-runs:/live-eval/recordings live-eval
FROM python:3.11-slim-bookworm
# Any version of make will do.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 live-eval \
    && install --directory --owner=1000 --group=1000 /live-eval
USER 1000:1000
WORKDIR /live-eval
COPY --chown=1000:1000 . .
RUN make .venv/local
CMD ["make", "demo"]
