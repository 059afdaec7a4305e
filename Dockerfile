FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /tff_fair
COPY . .
# The same set-up as ./train and ./test.
RUN bash -c 'with_dev=true; source scripts/setup_venv.sh'
ENV PATH="/tff_fair/.venv/bin:$PATH"
CMD ["bash"]
