package sdk

import (
	"context"

	"pilothouse.dev/sdk/internal/host"
)

// Context gives access to the host during one call of the plugin. It implements context.Context for libraries that require one, but is never
// cancelled: the host itself ends a call that takes too long.
type Context struct {
	context.Context
	objects []*Object
}

// NewContext returns the context of one call. It is for the SDK, and for tests with the host of package sdktest.
func NewContext() *Context { return &Context{Context: context.Background()} }

// Close closes all objects that were read through the context.
func (c *Context) Close() {
	for _, object := range c.objects {
		object.Close()
	}
	c.objects = nil
}

// Cache reads the objects of a watch from the host's memory. A name that the descriptor does not declare traps at the first read, with a message
// that lists the declared ones.
func (c *Context) Cache(watch string) Cache { return Cache{c, watch} }

// Client sends requests to the API server.
func (c *Context) Client() Client { return Client{c} }

// Queue queues more work for a target watch.
func (c *Context) Queue(watch string) Queue { return Queue{watch} }

// Events records Kubernetes Events, which `kubectl describe` shows.
func (c *Context) Events() Events { return Events{} }

// hold returns an object that is closed with the context; nil for nil.
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

// each passes the objects to the loop's body and closes each afterwards. It returns whether the loop continues.
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
