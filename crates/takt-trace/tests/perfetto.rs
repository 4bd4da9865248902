use perfetto_protos as _;
