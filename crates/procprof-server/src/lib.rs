//! Nodes, scheduler, ingest, HTTP API and web pages.
