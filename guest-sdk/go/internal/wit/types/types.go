// Package types has the types that the generated bindings take from wit-bindgen's runtime module. They are here so that the SDK depends on
// no other module, and on no newer Go than it needs.
package types

// The tags of an Option.
const (
	OptionNone = 0
	OptionSome = 1
)

// Option is WIT's option<T>.
type Option[T any] struct {
	some  bool
	value T
}

// None is an Option without a value.
func None[T any]() Option[T] { return Option[T]{} }

// Some is an Option with a value.
func Some[T any](value T) Option[T] { return Option[T]{some: true, value: value} }

// Tag says which of the two it is.
func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

// Some is the value; without one it panics.
func (o Option[T]) Some() T {
	if !o.some {
		panic("an option without a value was asked for it")
	}
	return o.value
}

// Get is the value as Go spells it.
func (o Option[T]) Get() (T, bool) { return o.value, o.some }

// The tags of a Result.
const (
	ResultOk  = 0
	ResultErr = 1
)

// Result is WIT's result<T, E>.
type Result[T, E any] struct {
	failed bool
	ok     T
	err    E
}

// Ok is a success.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{ok: value} }

// Err is a failure.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{failed: true, err: err} }

// Tag says which of the two it is.
func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

// Ok is the value of a success; for a failure it panics.
func (r Result[T, E]) Ok() T {
	if r.failed {
		panic("a failure was asked for its value")
	}
	return r.ok
}

// Err is the error of a failure; for a success it panics.
func (r Result[T, E]) Err() E {
	if !r.failed {
		panic("a success was asked for its error")
	}
	return r.err
}

// Unit is a value without content.
type Unit struct{}
