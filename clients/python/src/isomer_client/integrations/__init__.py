"""Isomer's encoders as those of other libraries. Each module needs the extra of its name."""
