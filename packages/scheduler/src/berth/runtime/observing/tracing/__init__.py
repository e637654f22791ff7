"""Traces of pods for OpenTelemetry; needs the extra `otel`, so it is imported only where tracing is configured."""
