//! What a profile is: the model, every format's decoder and encoder, merge, diff and filter.
