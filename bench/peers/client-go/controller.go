// A controller with client-go's informer, work queue, workers and lister, as in Kubernetes' sample controller.
package main

import (
	"context"
	"errors"
	"sync/atomic"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

type controller struct {
	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	pods     corelisters.PodLister
	progress *progress
	// initial is the number of listed objects that are still to be reconciled. Reconciles after that are caused by events.
	initial atomic.Int64
	// listReconciled is closed when all listed objects have been reconciled.
	listReconciled chan struct{}
}

// startController starts a controller and waits until every listed object has been reconciled once, so that the workers are idle when the
// events start.
func startController(ctx context.Context, config *rest.Config, o options, p *progress) (cache.SharedIndexInformer, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	c := &controller{
		queue:          workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
		pods:           pods.Lister(),
		progress:       p,
		listReconciled: make(chan struct{}),
	}
	c.initial.Store(int64(o.objects))
	if err := setTransform(pods.Informer(), o); err != nil {
		return nil, err
	}
	registration, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, object any) { c.enqueue(object) },
		DeleteFunc: c.enqueue,
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitFor(ctx, "", pods.Informer().HasSyncedChecker(), registration.HasSyncedChecker()) {
		return nil, errors.New("interrupted while the cache synced")
	}
	for range o.workers {
		go c.work()
	}
	select {
	case <-c.listReconciled:
		return pods.Informer(), nil
	case <-ctx.Done():
		return nil, errors.New("interrupted while the listed objects were reconciled")
	}
}

func (c *controller) enqueue(object any) {
	if name, err := cache.DeletionHandlingObjectToName(object); err == nil {
		c.queue.Add(name)
	}
}

func (c *controller) work() {
	for {
		name, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		c.reconcile(name)
		c.queue.Forget(name)
		c.queue.Done(name)
	}
}

func (c *controller) reconcile(name cache.ObjectName) {
	now := c.progress.now()
	pod, err := c.pods.Pods(name.Namespace).Get(name.Name)
	if err != nil {
		return // Deleted since.
	}
	switch left := c.initial.Add(-1); {
	case left == 0:
		close(c.listReconciled)
	case left < 0:
		c.progress.record(now, pod)
	}
}
