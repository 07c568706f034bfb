package sdk

import (
	"context"

	"pilothouse.dev/sdk/internal/host"
)

// Context is the host, as seen from one call of the plugin. It is a context.Context for libraries that want one; the host ends a call that
// takes too long by itself.
type Context struct {
	context.Context
	objects []*Object
}

// NewContext makes the context of one call. The SDK does so; a test may, with the host that sdktest makes.
func NewContext() *Context { return &Context{Context: context.Background()} }

// Close closes all objects that were read through the context.
func (c *Context) Close() {
	for _, object := range c.objects {
		object.Close()
	}
	c.objects = nil
}

// Cache is the objects of a watch, in the host's memory. A name that the descriptor does not have traps at the first read, with a message
// that lists those it has.
func (c *Context) Cache(watch string) Cache { return Cache{c, watch} }

// Client sends requests to the API server.
func (c *Context) Client() Client { return Client{c} }

// Queue is more work for a target watch.
func (c *Context) Queue(watch string) Queue { return Queue{watch} }

// Events records Kubernetes Events, the ones that `kubectl describe` shows.
func (c *Context) Events() Events { return Events{} }

// hold makes an object that is closed with the context; nil of nil.
func (c *Context) hold(handle host.Object) *Object {
	if handle == nil {
		return nil
	}
	object := &Object{handle}
	c.objects = append(c.objects, object)
	return object
}

func (c *Context) holdAll(handles []host.Object) []*Object {
	objects := make([]*Object, len(handles))
	for i, handle := range handles {
		objects[i] = c.hold(handle)
	}
	return objects
}

// each gives the objects to the loop, and closes each after its step.
func each(handles []host.Object, yield func(*Object) bool) bool {
	for i, handle := range handles {
		object := &Object{handle}
		more := yield(object)
		object.Close()
		if !more {
			for _, rest := range handles[i+1:] {
				rest.Drop()
			}
			return false
		}
	}
	return true
}
