// Informers as client-go's documentation shows them: a shared informer factory, one handler, the namespace index.
package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// factory is the common interface of the typed and the dynamic factories.
type factory interface{ Start(stop <-chan struct{}) }

// startInformer starts an informer and waits until the cache is synced and the handler has received every object in it.
func startInformer(ctx context.Context, config *rest.Config, o options, p *progress) (cache.SharedIndexInformer, error) {
	informer, factory, err := newInformer(config, o)
	if err != nil {
		return nil, err
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInInitialList bool) {
			now := p.now()
			if !isInInitialList {
				p.record(now, object.(metav1.Object))
			}
		},
		UpdateFunc: func(_, object any) {
			now := p.now()
			p.record(now, object.(metav1.Object))
		},
		DeleteFunc: func(object any) {
			now := p.now()
			// Nothing is relisted, so the object is no cache.DeletedFinalStateUnknown.
			p.record(now, object.(metav1.Object))
		},
	})
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	if !cache.WaitFor(ctx, "", informer.HasSyncedChecker(), registration.HasSyncedChecker()) {
		return nil, errors.New("interrupted while the cache synced")
	}
	return informer, nil
}

func newInformer(config *rest.Config, o options) (cache.SharedIndexInformer, factory, error) {
	if o.mode == "dynamic" {
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, nil, err
		}
		factory := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
		informer := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods")).Informer()
		return informer, factory, setTransform(informer, o)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	return informer, factory, setTransform(informer, o)
}

// setTransform sets the transform of the example in client-go's documentation, which drops managedFields, if the options ask for it.
func setTransform(informer cache.SharedIndexInformer, o options) error {
	if !o.strip {
		return nil
	}
	return informer.SetTransform(func(object any) (any, error) {
		if object, ok := object.(metav1.Object); ok {
			object.SetManagedFields(nil)
		}
		return object, nil
	})
}
