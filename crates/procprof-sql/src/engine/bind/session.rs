//! What the session knows: variables, the user, the time.

use super::expression::from_value;
use super::{Binder, Bound, Place, unsupported, wrong};
use crate::engine::call::{Call, Kernel};
use crate::engine::moment::{DAY, SECOND};
use crate::engine::types::{Coercibility, Collation, SqlType};
use crate::engine::value::Val;
use crate::mysql::SqlError;
use crate::variables::{self, VERSION};

/// A text that the server knows.
const SYSTEM: SqlType = SqlType::Text { collation: Collation::General, coercibility: Coercibility::SystemConstant };

impl Binder<'_> {
    /// `@name` or `@@name`.
    pub(super) fn variable(&mut self, whole: &str, place: &Place<'_>) -> Result<Bound, SqlError> {
        let value = match whole.strip_prefix("@@") {
            Some(name) => self.session.variables.value(name).ok_or_else(|| variables::unknown(name))?,
            None => {
                let name = whole.trim_start_matches('@');
                if let Some(assigned) = self.assigned(name, place)? {
                    return Ok(assigned);
                }
                self.session.variables.user(name)?
            }
        };
        Ok(from_value(&value))
    }

    /// A function that needs no parentheses.
    pub(super) fn bare_function(&self, name: &str) -> Result<Option<Bound>, SqlError> {
        let name = name.to_ascii_lowercase();
        let bare = [
            "current_timestamp",
            "localtime",
            "localtimestamp",
            "current_date",
            "current_time",
            "current_user",
            "utc_date",
            "utc_time",
            "utc_timestamp",
        ];
        if bare.contains(&name.as_str()) { self.of_session(&name, &[]) } else { Ok(None) }
    }

    /// A function of the session.
    pub(super) fn of_session(&self, name: &str, arguments: &[Bound]) -> Result<Option<Bound>, SqlError> {
        let text = |text: &str| Bound::constant(Val::from(text.to_owned()), SYSTEM);
        let number = |number: i64| Bound::constant(Val::Integer(number), SqlType::Integer);
        let micros = self.session.now.as_microsecond();
        let digits = || match arguments {
            [] => Ok(0_u8),
            [digits] => {
                let digits = digits.constant.as_ref().map(Val::integer);
                let digits = digits.and_then(|digits| u8::try_from(digits).ok()).filter(|digits| *digits <= 6);
                digits.ok_or_else(|| wrong(format!("{name}: at most 6 digits behind the second")))
            }
            _ => Err(super::calls::wrong_count(name)),
        };
        let cut = |micros: i64, digits: u8| {
            let unit = 10_i64.pow(6 - u32::from(digits));
            micros - micros.rem_euclid(unit)
        };
        Ok(Some(match (name, arguments) {
            ("now" | "current_timestamp" | "localtime" | "localtimestamp" | "sysdate" | "utc_timestamp", _) => {
                let digits = digits()?;
                Bound::constant(Val::DateTime(cut(micros, digits)), SqlType::DateTime { digits })
            }
            ("curdate" | "current_date" | "utc_date", []) => {
                Bound::constant(Val::Date(micros.div_euclid(DAY)), SqlType::Date)
            }
            ("curtime" | "current_time" | "utc_time", _) => {
                let digits = digits()?;
                Bound::constant(Val::Time(cut(micros.rem_euclid(DAY), digits)), SqlType::Time { digits })
            }
            ("unix_timestamp", []) => number(micros.div_euclid(SECOND)),
            ("version" | "current_version", []) => text(VERSION),
            ("database" | "schema", []) => match self.session.database {
                "" => Bound::constant(Val::Null, SYSTEM),
                database => text(database),
            },
            ("user" | "current_user" | "session_user" | "system_user", []) => text(&self.session.user),
            ("connection_id", []) => number(self.session.connection.into()),
            ("last_insert_id" | "found_rows", []) => number(0),
            ("row_count", []) => number(-1),
            ("sleep", [seconds]) => {
                let kernel: Kernel = |call| {
                    let seconds = call.real(0).unwrap_or(0.0).clamp(0.0, 86_400.0);
                    let until = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
                    while std::time::Instant::now() < until {
                        call.go_on()?;
                        let nap = std::time::Duration::from_millis(20);
                        std::thread::sleep(nap.min(until.saturating_duration_since(std::time::Instant::now())));
                    }
                    Ok(Val::Integer(0))
                };
                self.volatile("sleep", kernel, std::slice::from_ref(seconds), SqlType::Integer)
            }
            ("uuid", []) => {
                let kernel: Kernel = |_| {
                    let mut bytes = [0_u8; 16];
                    let failed =
                        || SqlError::new(crate::mysql::SqlErrorKind::Other, "uuid: the kernel has no random bytes");
                    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| failed())?;
                    bytes[6] = bytes[6] & 0x0f | 0x40;
                    bytes[8] = bytes[8] & 0x3f | 0x80;
                    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                    Ok(parts.join("-").into())
                };
                self.volatile("uuid", kernel, &[], SqlType::LITERAL)
            }
            ("rand", []) => {
                let kernel: Kernel = |_| {
                    let mut bytes = [0_u8; 8];
                    let failed =
                        || SqlError::new(crate::mysql::SqlErrorKind::Other, "rand: the kernel has no random bytes");
                    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| failed())?;
                    Ok(Val::Double((u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64))
                };
                self.volatile("rand", kernel, &[], SqlType::FLOAT)
            }
            ("rand", [_]) => return Err(unsupported("RAND with a seed")),
            _ => return Ok(None),
        }))
    }

    /// A function that has another value each time.
    fn volatile(&self, name: &'static str, kernel: Kernel, arguments: &[Bound], returns: SqlType) -> Bound {
        let types = arguments.iter().map(|argument| argument.kind).collect();
        let mut call = Call::new(name, kernel, types, returns, "", &self.watch);
        call.volatile = true;
        Bound::of(call.on(arguments.iter().map(|argument| argument.expr.clone()).collect()), returns)
    }
}
