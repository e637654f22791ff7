"""What every port needs that is served over TLS: accepted connections, handshakes, and certificates with their keys."""
