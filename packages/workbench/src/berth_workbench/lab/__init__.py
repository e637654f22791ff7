"""For research: environments to learn in, and questions in a notebook. Nothing of Berth needs this package."""
