//! The laws of layouts, and Graphviz as their yardstick.

mod laws;
mod measure;
mod plain;
