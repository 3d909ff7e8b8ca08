//! A Linux process as seen from outside or inside: identity, maps, build ids, threads, namespaces.
