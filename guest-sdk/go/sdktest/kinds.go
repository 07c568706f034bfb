package sdktest

import (
	"slices"
	"strings"

	"pilothouse.dev/sdk"
)

// kind is what the fake API server knows about a kind.
type kind struct {
	group, plural string
	scope         scope
	// Whether the status is a subresource.
	hasStatus bool
	// Whether metadata.generation counts changes of the spec.
	hasGeneration bool
	// Whether an update without a resource version is refused.
	needsVersion bool
}

type scope uint8

const (
	// The kind of a CRD that the plugin does not bring.
	unknownScope scope = iota
	namespaced
	clusterScoped
)

func words(text string) []string { return strings.Fields(text) }

var (
	builtInGroups = words(`apps autoscaling batch extensions policy admissionregistration.k8s.io apiextensions.k8s.io apiregistration.k8s.io
		authentication.k8s.io authorization.k8s.io certificates.k8s.io coordination.k8s.io discovery.k8s.io events.k8s.io
		flowcontrol.apiserver.k8s.io networking.k8s.io node.k8s.io rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io storage.k8s.io`)
	clusterScopedKinds = words(`APIService CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding CustomResourceDefinition
		DeviceClass FlowSchema IngressClass MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass
		PriorityLevelConfiguration ResourceSlice RuntimeClass StorageClass ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
		ValidatingWebhookConfiguration VolumeAttachment`)
	kindsWithStatus = words(`APIService CertificateSigningRequest CronJob CustomResourceDefinition DaemonSet Deployment FlowSchema
		HorizontalPodAutoscaler Ingress Job Namespace Node PersistentVolume PersistentVolumeClaim Pod PodDisruptionBudget
		PriorityLevelConfiguration ReplicaSet ReplicationController ResourceClaim ResourceQuota Service StatefulSet
		ValidatingAdmissionPolicy VolumeAttachment`)
	kindsWithGeneration = words(`CSIDriver CronJob CustomResourceDefinition DaemonSet Deployment EndpointSlice FlowSchema Ingress IngressClass
		Job MutatingWebhookConfiguration NetworkPolicy Pod PodDisruptionBudget PodTemplate PriorityClass PriorityLevelConfiguration
		ReplicaSet ReplicationController StatefulSet ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
		ValidatingWebhookConfiguration`)
	// Built-in kinds whose update needs a resource version.
	conditionalUpdate = words(`CustomResourceDefinition Lease PodDisruptionBudget`)
	// The kinds that a subresource is posted to when the manifest has another kind.
	parents = map[string]string{"eviction": "Pod", "binding": "Pod", "token": "ServiceAccount"}
)

// kindOf returns what is known about a type, from the plugin's CRDs and the built-in kinds.
func (c *cluster) kindOf(of sdk.Type) kind {
	group, version := "", of.APIVersion
	if slash := strings.LastIndex(of.APIVersion, "/"); slash >= 0 {
		group, version = of.APIVersion[:slash], of.APIVersion[slash+1:]
	}
	for _, crd := range c.crds {
		spec := object(crd, "spec")
		names := object(spec, "names")
		if text(spec, "group") != group || text(names, "kind") != of.Kind {
			continue
		}
		found := kind{group: group, plural: text(names, "plural"), scope: clusterScoped, hasGeneration: true, needsVersion: true}
		if text(spec, "scope") == "Namespaced" {
			found.scope = namespaced
		}
		for _, served := range list(spec, "versions") {
			members, _ := served.(map[string]any)
			_, hasStatus := object(members, "subresources")["status"]
			found.hasStatus = found.hasStatus || text(members, "name") == version && hasStatus
		}
		return found
	}
	if group != "" && !slices.Contains(builtInGroups, group) {
		return kind{group: group, plural: plural(of.Kind), hasStatus: true, hasGeneration: true, needsVersion: true}
	}
	found := kind{group: group, plural: plural(of.Kind), scope: namespaced,
		hasStatus:     slices.Contains(kindsWithStatus, of.Kind),
		hasGeneration: slices.Contains(kindsWithGeneration, of.Kind),
		needsVersion:  slices.Contains(conditionalUpdate, of.Kind)}
	if slices.Contains(clusterScopedKinds, of.Kind) {
		found.scope = clusterScoped
	}
	return found
}

// parentOf returns the type that a create request for a subresource is sent to.
func parentOf(of sdk.Type, subresource string) sdk.Type {
	if parent, ok := parents[subresource]; ok {
		return sdk.Type{APIVersion: "v1", Kind: parent}
	}
	return of
}

func plural(kind string) string {
	lower := strings.ToLower(kind)
	stem, endsInY := strings.CutSuffix(lower, "y")
	switch {
	case lower == "endpoints":
		return lower
	case endsInY && !strings.ContainsAny(stem[max(0, len(stem)-1):], "aeiou"):
		return stem + "ies"
	case strings.HasSuffix(lower, "s"), strings.HasSuffix(lower, "x"), strings.HasSuffix(lower, "ch"):
		return lower + "es"
	default:
		return lower + "s"
	}
}
