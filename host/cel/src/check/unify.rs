//! Assignability of types with parameters, after `github.com/google/cel-go/checker/types.go`.

use super::types::Type;

/// The most levels of a type.
const MAX_DEPTH: usize = 100;

/// The work of one check is too much. The rest of the expression is not checked.
#[derive(Debug)]
pub(super) struct Exhausted;

/// The types that the parameters of a check stand for.
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// The earlier values of the parameters that the current attempt bound.
    undo: Vec<(usize, Option<Type>)>,
    /// How many more steps are made.
    steps: usize,
}

impl Bindings {
    pub(super) fn new(steps: usize) -> Self {
        Self { bound: Vec::new(), undo: Vec::new(), steps }
    }

    /// Returns the first of `count` new parameters.
    pub(super) fn parameters(&mut self, count: usize) -> usize {
        let first = self.bound.len();
        self.bound.resize(first + count, None);
        first
    }

    /// Counts a step of the check.
    pub(super) fn step(&mut self) -> Result<(), Exhausted> {
        self.steps = self.steps.checked_sub(1).ok_or(Exhausted)?;
        Ok(())
    }

    /// Returns whether values of the types `from` can be used where the types `to` are expected. If so, it binds their parameters.
    pub(super) fn assign(&mut self, from: &[Type], to: &[Type]) -> Result<bool, Exhausted> {
        self.undo.clear();
        let is_assignable = self.assign_all(from, to, 0)?;
        if !is_assignable {
            while let Some((parameter, earlier)) = self.undo.pop() {
                self.bound[parameter] = earlier;
            }
        }
        Ok(is_assignable)
    }

    fn assign_all(&mut self, from: &[Type], to: &[Type], depth: usize) -> Result<bool, Exhausted> {
        if from.len() != to.len() {
            return Ok(false);
        }
        for (from, to) in from.iter().zip(to) {
            if !self.assign_one(from, to, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn assign_one(&mut self, from: &Type, to: &Type, depth: usize) -> Result<bool, Exhausted> {
        self.step()?;
        if depth > MAX_DEPTH {
            return Err(Exhausted);
        }
        if let Type::Parameter(parameter) = to {
            match self.stands_for(*parameter, from, depth)? {
                Substitution::Valid => return Ok(true),
                Substitution::Conflict => return Ok(false),
                Substitution::Cyclic => {}
            }
        }
        if let Type::Parameter(parameter) = from {
            return Ok(matches!(self.stands_for(*parameter, to, depth)?, Substitution::Valid));
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return Ok(true);
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => Ok(other.is_nullable()),
            (Type::Type(_), Type::Type(_)) => Ok(true),
            (Type::List(from), Type::List(to)) | (Type::Optional(from), Type::Optional(to)) => {
                self.assign_one(from, to, depth + 1)
            }
            (Type::Map(from), Type::Map(to)) => {
                Ok(self.assign_one(&from.0, &to.0, depth + 1)?
                    && self.assign_one(&from.1, &to.1, depth + 1)?)
            }
            (Type::Object { id: from, .. }, Type::Object { id: to, .. }) => Ok(from == to),
            (Type::Library(from), Type::Library(to)) => Ok(from == to),
            _ => Ok(std::mem::discriminant(from) == std::mem::discriminant(to)),
        }
    }

    /// Lets the parameter stand for a type, if it can.
    fn stands_for(&mut self, parameter: usize, ty: &Type, depth: usize) -> Result<Substitution, Exhausted> {
        if matches!(ty, Type::Parameter(other) if *other == parameter) {
            return Ok(Substitution::Valid);
        }
        let Some(current) = self.bound[parameter].clone() else {
            if self.contains(ty, parameter, depth)? {
                return Ok(Substitution::Cyclic);
            }
            self.bind(parameter, ty.clone());
            return Ok(Substitution::Valid);
        };
        if !self.assign_one(ty, &current, depth + 1)? {
            return Ok(Substitution::Conflict);
        }
        if self.is_equal_or_less_specific(ty, &current, depth)? && !self.contains(ty, parameter, depth)? {
            self.bind(parameter, ty.clone());
        }
        Ok(Substitution::Valid)
    }

    fn bind(&mut self, parameter: usize, ty: Type) {
        let earlier = self.bound[parameter].replace(ty);
        self.undo.push((parameter, earlier));
    }

    /// Whether the parameter occurs in a type, which therefore cannot stand for it.
    fn contains(&mut self, ty: &Type, parameter: usize, depth: usize) -> Result<bool, Exhausted> {
        self.step()?;
        if depth > MAX_DEPTH {
            return Err(Exhausted);
        }
        match ty {
            Type::Parameter(other) if *other == parameter => Ok(true),
            Type::Parameter(other) => match self.bound[*other].clone() {
                Some(bound) => self.contains(&bound, parameter, depth + 1),
                None => Ok(false),
            },
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => {
                self.contains(inner, parameter, depth + 1)
            }
            Type::Map(types) => Ok(self.contains(&types.0, parameter, depth + 1)?
                || self.contains(&types.1, parameter, depth + 1)?),
            _ => Ok(false),
        }
    }

    /// Returns the more general of two types that can be assigned to each other.
    pub(super) fn most_general(&mut self, left: &Type, right: &Type) -> Result<Type, Exhausted> {
        Ok(if self.is_equal_or_less_specific(left, right, 0)? { left.clone() } else { right.clone() })
    }

    fn is_equal_or_less_specific(
        &mut self,
        left: &Type,
        right: &Type,
        depth: usize,
    ) -> Result<bool, Exhausted> {
        self.step()?;
        if depth > MAX_DEPTH {
            return Err(Exhausted);
        }
        match (left, right) {
            (Type::Dyn | Type::Parameter(_), _) => Ok(true),
            (_, Type::Dyn | Type::Parameter(_)) => Ok(false),
            (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
                self.is_equal_or_less_specific(left, right, depth + 1)
            }
            (Type::Map(left), Type::Map(right)) => {
                Ok(self.is_equal_or_less_specific(&left.0, &right.0, depth + 1)?
                    && self.is_equal_or_less_specific(&left.1, &right.1, depth + 1)?)
            }
            (Type::Type(_), Type::Type(_)) => Ok(true),
            (Type::Object { id: left, .. }, Type::Object { id: right, .. }) => Ok(left == right),
            (Type::Library(left), Type::Library(right)) => Ok(left == right),
            _ => Ok(std::mem::discriminant(left) == std::mem::discriminant(right)),
        }
    }

    /// Replaces the parameters of a type by what they stand for.
    pub(super) fn substitute(&mut self, ty: &Type) -> Result<Type, Exhausted> {
        self.substitute_at(ty, 0)
    }

    fn substitute_at(&mut self, ty: &Type, depth: usize) -> Result<Type, Exhausted> {
        self.step()?;
        if depth > MAX_DEPTH {
            return Err(Exhausted);
        }
        Ok(match ty {
            Type::Parameter(parameter) => match self.bound[*parameter].clone() {
                Some(bound) => self.substitute_at(&bound, depth + 1)?,
                None => ty.clone(),
            },
            Type::List(inner) => Type::list(self.substitute_at(inner, depth + 1)?),
            Type::Optional(inner) => Type::optional(self.substitute_at(inner, depth + 1)?),
            Type::Type(inner) => Type::Type(self.substitute_at(inner, depth + 1)?.into()),
            Type::Map(types) => {
                Type::map(self.substitute_at(&types.0, depth + 1)?, self.substitute_at(&types.1, depth + 1)?)
            }
            other => other.clone(),
        })
    }
}

/// Whether a parameter can stand for a type.
enum Substitution {
    Valid,
    /// It stands for another type.
    Conflict,
    /// It occurs in the type.
    Cyclic,
}
