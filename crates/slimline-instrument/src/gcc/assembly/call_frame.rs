//! Where a function's return address lies, by the directives that unwind information is made of.

/// What is known at one place of a function, going from line to line.
#[derive(Clone, Default, Debug)]
pub(super) struct CallFrame {
    /// The register and the distance to what is just above the return address; none where no two say it.
    now: Option<(&'static str, i64)>,
    /// What `.cfi_restore_state` goes back to.
    remembered: Vec<Option<(&'static str, i64)>>,
}

impl CallFrame {
    /// Takes in a directive: its name without the dot.
    pub(super) fn take(&mut self, name: &str, operands: &str) {
        let mut operands = operands.split(',').map(str::trim);
        let mut number = || operands.next().and_then(|number| number.parse::<i64>().ok());
        match name {
            "cfi_startproc" => *self = Self { now: Some(("%rsp", 8)), remembered: Vec::new() },
            "cfi_endproc" => *self = Self::default(),
            "cfi_def_cfa" => self.now = number().and_then(register).zip(number()),
            "cfi_def_cfa_register" => {
                let register = number().and_then(register);
                self.now = register.zip(self.now.map(|(_, offset)| offset));
            }
            "cfi_def_cfa_offset" => self.now = self.now.map(|(register, _)| register).zip(number()),
            "cfi_adjust_cfa_offset" => {
                let by = number();
                self.now = self.now.and_then(|(register, offset)| Some((register, offset.checked_add(by?)?)));
            }
            "cfi_remember_state" => self.remembered.push(self.now),
            "cfi_restore_state" => self.now = self.remembered.pop().flatten(),
            // An expression, as of a stack that is aligned anew.
            "cfi_escape" if operands.next() == Some("0xf") => self.now = None,
            _ => {}
        }
    }

    /// The operand that is where the return address lies.
    pub(super) fn return_address(&self) -> Option<String> {
        self.now.map(|(register, offset)| format!("{}({register})", offset.wrapping_sub(8)))
    }
}

/// By DWARF's number; none of those that hold it nowhere else but where the stack is aligned anew.
fn register(number: i64) -> Option<&'static str> {
    match number {
        6 => Some("%rbp"),
        7 => Some("%rsp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_followed() {
        let mut frame = CallFrame::default();
        let mut after = |directive: &str| {
            let (name, operands) = directive.split_once(' ').unwrap_or((directive, ""));
            frame.take(name, operands);
            frame.return_address()
        };
        let at = |place: &str| Some(place.to_owned());
        assert_eq!(after("cfi_personality 0x9b,DW.ref.__gxx_personality_v0"), None);
        assert_eq!(after("cfi_startproc"), at("0(%rsp)"));
        assert_eq!(after("cfi_def_cfa_offset 16"), at("8(%rsp)"));
        assert_eq!(after("cfi_offset 6, -16"), at("8(%rsp)"));
        assert_eq!(after("cfi_def_cfa_register 6"), at("8(%rbp)"));
        assert_eq!(after("cfi_remember_state"), at("8(%rbp)"));
        assert_eq!(after("cfi_def_cfa 7, 8"), at("0(%rsp)"));
        assert_eq!(after("cfi_adjust_cfa_offset 32"), at("32(%rsp)"));
        assert_eq!(after("cfi_restore_state"), at("8(%rbp)"));
        assert_eq!(after("cfi_escape 0x10,0x6,0x2,0x76,0"), at("8(%rbp)"));
        assert_eq!(after("cfi_escape 0xf,0x3,0x76,0x78,0x6"), None);
        assert_eq!(after("cfi_def_cfa_offset 8"), None);
        assert_eq!(after("cfi_def_cfa 10, 0"), None);
        assert_eq!(after("cfi_def_cfa 7, 8"), at("0(%rsp)"));
        assert_eq!(after("cfi_endproc"), None);
    }
}
