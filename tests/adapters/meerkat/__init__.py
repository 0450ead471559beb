"""Tests of the Meerkat adapter."""
