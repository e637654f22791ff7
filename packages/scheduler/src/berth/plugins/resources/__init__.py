"""The plugins that compare what pods request with what nodes have, and what they share."""
