//! Which types fit which, while some are not known yet.

use crate::types::Type;

/// What is known of the types that were not known at first, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Known(Vec<Option<Type>>);

impl Known {
    /// A type that is not known yet.
    pub(super) fn fresh(&mut self) -> Type {
        self.0.push(None);
        Type::Var(self.0.len() as u32 - 1)
    }

    /// The type with all that is known put in; what is not becomes `dyn` if `finish` is set.
    pub(super) fn substitute(&self, of: &Type, finish: bool) -> Type {
        match of {
            Type::Var(n) => match &self.0[*n as usize] {
                Some(known) => self.substitute(known, finish),
                None if finish => Type::Dyn,
                None => of.clone(),
            },
            other => other.with(&mut |t| self.substitute(t, finish)),
        }
    }

    /// Whether a value of type `from` can stand where `to` is wanted. If so, what follows from it is noted, else nothing.
    pub(super) fn assignable(&mut self, to: &Type, from: &Type) -> bool {
        let before = self.clone();
        let fits = self.fits(to, from);
        if !fits {
            *self = before;
        }
        fits
    }

    /// The same for several at once.
    pub(super) fn all_assignable<'a>(&mut self, pairs: impl IntoIterator<Item = (&'a Type, &'a Type)>) -> bool {
        let before = self.clone();
        let fits = pairs.into_iter().all(|(to, from)| self.fits(to, from));
        if !fits {
            *self = before;
        }
        fits
    }

    fn fits(&mut self, a: &Type, b: &Type) -> bool {
        if let (Type::Var(x), Type::Var(y)) = (a, b)
            && x == y
        {
            return true;
        }
        if let Type::Var(n) = b {
            return self.learn(*n, b, a, false);
        }
        if let Type::Var(n) = a {
            return self.learn(*n, a, b, true);
        }
        if a.is_dyn() || b.is_dyn() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(other, Type::Null | Type::Object(_) | Type::Duration | Type::Timestamp | Type::Opaque(..))
            }
            (Type::Type(_), Type::Type(_)) => true,
            _ => a.same_kind(b) && a.params().into_iter().zip(b.params()).all(|(x, y)| self.fits(x, y)),
        }
    }

    /// `variable` is, or becomes, `other`. `wanted`: the variable stands where something is wanted.
    fn learn(&mut self, n: u32, variable: &Type, other: &Type, wanted: bool) -> bool {
        if let Some(known) = self.0[n as usize].clone() {
            let fits = if wanted { self.fits(&known, other) } else { self.fits(other, &known) };
            if fits && general(other, &known) && !self.occurs(variable, other) {
                self.0[n as usize] = Some(other.clone());
            }
            return fits;
        }
        if self.occurs(variable, other) {
            return false;
        }
        self.0[n as usize] = Some(other.clone());
        true
    }

    /// Whether the variable is part of the type.
    fn occurs(&self, variable: &Type, within: &Type) -> bool {
        let within = self.substitute(within, false);
        fn walk(variable: &Type, t: &Type) -> bool {
            t == variable || t.params().into_iter().any(|p| walk(variable, p))
        }
        !matches!(within, Type::Var(_)) && walk(variable, &within)
    }
}

/// Whether `a` says the same as `b`, or less.
pub(super) fn general(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Error, _) | (Type::Var(_) | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Error) => false,
        (Type::Null, other) => matches!(other, Type::Null),
        _ => a.same_kind(b) && a.params().into_iter().zip(b.params()).all(|(x, y)| general(x, y)),
    }
}
