//! The seam's laws as checkable properties.
