//! The protocol as its reference has it, byte by byte, and what comes of bytes that break it.

mod login;
mod packets;
mod parameters;
mod rows;
mod server;

/// A style outside any transaction.
fn style(capabilities: u32, form: super::column::Form) -> super::response::ResponseStyle {
    super::response::ResponseStyle {
        capabilities,
        form,
        transaction: super::Transaction { autocommit: true, open: false },
    }
}

/// Every beginning of a packet is read, or refused with a sentence that names the packet; nothing panics.
fn every_beginning(packet: &[u8], read: impl Fn(&[u8]) -> Result<(), super::SqlError>) {
    for length in 0..=packet.len() {
        if let Err(failure) = read(&packet[..length]) {
            assert!(!failure.text.is_empty(), "{length}");
        }
    }
}
