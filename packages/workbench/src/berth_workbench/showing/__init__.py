"""Answers as sections: a verdict, sentences, tables and pictures, and what makes text or a drawing of them."""
