// Package types has the types that the generated bindings expect from wit-bindgen's runtime module. They are copied here so that the SDK depends
// on no other module and does not require a newer version of Go.
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

// None returns an Option without a value.
func None[T any]() Option[T] { return Option[T]{} }

// Some returns an Option with a value.
func Some[T any](value T) Option[T] { return Option[T]{some: true, value: value} }

// Tag returns which of the two cases it is.
func (o Option[T]) Tag() uint8 {
	if o.some {
		return OptionSome
	}
	return OptionNone
}

// Some returns the value. It panics without one.
func (o Option[T]) Some() T {
	if !o.some {
		panic("an option without a value was asked for it")
	}
	return o.value
}

// Get returns the value and whether there is one.
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

// Ok returns a success.
func Ok[T, E any](value T) Result[T, E] { return Result[T, E]{ok: value} }

// Err returns a failure.
func Err[T, E any](err E) Result[T, E] { return Result[T, E]{failed: true, err: err} }

// Tag returns which of the two cases it is.
func (r Result[T, E]) Tag() uint8 {
	if r.failed {
		return ResultErr
	}
	return ResultOk
}

// Ok returns the value of a success. It panics for a failure.
func (r Result[T, E]) Ok() T {
	if r.failed {
		panic("a failure was asked for its value")
	}
	return r.ok
}

// Err returns the error of a failure. It panics for a success.
func (r Result[T, E]) Err() E {
	if !r.failed {
		panic("a success was asked for its error")
	}
	return r.err
}

// Unit is a type without a value.
type Unit struct{}
