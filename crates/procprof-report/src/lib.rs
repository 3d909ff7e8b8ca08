//! A profile to flame graph, top, collapsed and further shapes.
