"""The parts put together: events in, decisions stepped, effects out, and time without a clock."""
