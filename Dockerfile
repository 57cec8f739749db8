# docker build -t live-eval . && docker run --rm live-eval
FROM python:3.11-slim-bookworm
# A compiler for pyworld, which has no wheels.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /live-eval
COPY . .
RUN make .venv/local
CMD ["make", "demo"]
