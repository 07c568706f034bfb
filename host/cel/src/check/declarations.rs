//! The functions that an expression can call, with their types.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::types::Type;

/// One form of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) is_method: bool,
    /// The types of the arguments. The first one of a method is its target.
    pub(super) arguments: Vec<Type>,
    pub(super) result: Type,
    /// How many type parameters it has.
    pub(super) parameters: usize,
}

static DECLARATIONS: LazyLock<BTreeMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for line in include_str!("declarations.txt").lines().filter(|line| !line.starts_with('#')) {
        let (name, signature) = line.split_once(' ').expect("a name and a signature");
        all.entry(name).or_default().push(overload(signature).expect("a signature"));
    }
    all
});

/// Returns the forms of a function; `None` if there is none of this name.
pub(super) fn overloads(name: &str) -> Option<&'static [Overload]> {
    DECLARATIONS.get(name).map(Vec::as_slice)
}

fn overload(signature: &'static str) -> Option<Overload> {
    let mut reader = Reader { rest: signature, parameters: 0 };
    let mut arguments = Vec::new();
    let is_method = !reader.rest.starts_with('(');
    if is_method {
        arguments.push(reader.ty()?);
        reader.skip(".")?;
    }
    reader.skip("(")?;
    while reader.skip(")").is_none() {
        arguments.push(reader.ty()?);
        let _ = reader.skip(", ");
    }
    reader.skip(" ")?;
    let result = reader.ty()?;
    reader.rest.is_empty().then_some(Overload { is_method, arguments, result, parameters: reader.parameters })
}

/// Reads the types of a signature.
struct Reader {
    rest: &'static str,
    parameters: usize,
}

impl Reader {
    fn skip(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn ty(&mut self) -> Option<Type> {
        let end = self.rest.find(['(', ')', ',', ' ']).unwrap_or(self.rest.len());
        // The dot before the arguments of a method is not a part of its target's name.
        let name = self.rest[..end].strip_suffix('.').unwrap_or(&self.rest[..end]);
        self.rest = &self.rest[name.len()..];
        Some(match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            "dyn" => Type::Dyn,
            "A" | "B" => {
                let number = usize::from(name == "B");
                self.parameters = self.parameters.max(number + 1);
                Type::Parameter(number)
            }
            "list" => Type::list(self.parameter()?),
            "optional_type" => Type::optional(self.parameter()?),
            "type" => Type::Type(self.parameter()?.into()),
            "map" => {
                self.skip("(")?;
                let key = self.ty()?;
                self.skip(", ")?;
                let value = self.ty()?;
                self.skip(")")?;
                Type::map(key, value)
            }
            library if library.contains('.') => Type::Library(library),
            _ => return None,
        })
    }

    fn parameter(&mut self) -> Option<Type> {
        self.skip("(")?;
        let ty = self.ty()?;
        self.skip(")")?;
        Some(ty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let index = overload("(optional_type(map(A, B)), A) optional_type(B)").expect("a signature");
        let map = Type::map(Type::Parameter(0), Type::Parameter(1));
        assert_eq!(index.arguments, [Type::optional(map), Type::Parameter(0)]);
        assert_eq!(index.result, Type::optional(Type::Parameter(1)));
        assert_eq!((index.is_method, index.parameters), (false, 2));
        let contains = overload("net.CIDR.(net.IP) bool").expect("a signature");
        assert_eq!(contains.arguments, [Type::Library("net.CIDR"), Type::Library("net.IP")]);
        assert!(contains.is_method);
        let size = overload("list(A).() int").expect("a signature");
        assert_eq!(size.arguments, [Type::list(Type::Parameter(0))]);
    }

    #[test]
    fn all_declarations_can_be_read() {
        assert!(DECLARATIONS.len() > 100);
        assert_eq!(overloads("size").map(<[Overload]>::len), Some(8));
        assert!(overloads("noSuchFunction").is_none());
    }
}
