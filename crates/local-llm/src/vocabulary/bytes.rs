//! The bytes that each token adds to a text.

use std::collections::HashMap;

use super::Kind;

/// Bytes of all tokens, and the end of each.
pub(super) fn of_tokens(tokens: &[&str], kinds: &[Kind], sentence_piece: bool) -> (Vec<u8>, Vec<usize>) {
    let stand_ins = byte_stand_ins();
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(tokens.len()));
    for (token, kind) in tokens.iter().zip(kinds) {
        match kind {
            Kind::Control | Kind::Unused => {}
            Kind::Byte => bytes.extend(hex_byte(token)),
            Kind::UserDefined => bytes.extend(token.bytes()),
            Kind::Normal if sentence_piece => bytes.extend(token.replace('▁', " ").bytes()),
            Kind::Normal => {
                for c in token.chars() {
                    match stand_ins.get(&c) {
                        Some(byte) => bytes.push(*byte),
                        None => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    }
                }
            }
        }
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// `<0x0A>` → 10.
fn hex_byte(token: &str) -> Option<u8> {
    u8::from_str_radix(token.strip_prefix("<0x")?.strip_suffix('>')?, 16).ok()
}

/// The printable characters that represent bytes in byte-level vocabularies (Radford et al. 2019):
/// printable Latin-1 represents itself, and the characters from U+0100 on represent the rest, in
/// order.
fn byte_stand_ins() -> HashMap<char, u8> {
    let mut next = 0x100u32;
    (0..=255u8)
        .filter_map(|byte| {
            let printable = matches!(byte, 33..=126 | 161..=172 | 174..=255);
            let code = if printable {
                u32::from(byte)
            } else {
                next += 1;
                next - 1
            };
            char::from_u32(code).map(|c| (c, byte))
        })
        .collect()
}
