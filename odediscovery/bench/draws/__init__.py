"""The same system under many draws of the noise, and series without any law."""
