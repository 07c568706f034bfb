package sdk

import (
	"slices"
	"time"
)

// Condition is a condition in a status, as Kubernetes' own: metav1.Condition has the same JSON.
type Condition struct {
	Type string `json:"type"`
	// "True", "False" or "Unknown".
	Status             string    `json:"status"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// A word in UpperCamelCase, for machines.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ConditionStatus is "True" or "False".
func ConditionStatus(holds bool) string {
	if holds {
		return "True"
	}
	return "False"
}

// SetCondition adds a condition or brings it up to date, and says whether that changed anything (if not, there is nothing to write).
// LastTransitionTime becomes now (time.Now()) only when the status flips.
func SetCondition(conditions *[]Condition, condition Condition, now time.Time) (changed bool) {
	condition.LastTransitionTime = now.UTC().Truncate(time.Second)
	present := FindCondition(*conditions, condition.Type)
	if present == nil {
		*conditions = append(*conditions, condition)
		return true
	}
	if present.Status == condition.Status {
		condition.LastTransitionTime = present.LastTransitionTime
	}
	changed = *present != condition
	*present = condition
	return changed
}

// FindCondition is the condition of this type in the list, or nil.
func FindCondition(conditions []Condition, conditionType string) *Condition {
	i := slices.IndexFunc(conditions, func(condition Condition) bool { return condition.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}

// IsConditionTrue says whether the condition is there and "True".
func IsConditionTrue(conditions []Condition, conditionType string) bool {
	condition := FindCondition(conditions, conditionType)
	return condition != nil && condition.Status == "True"
}

// RemoveCondition removes a condition, and says whether it was there.
func RemoveCondition(conditions *[]Condition, conditionType string) bool {
	before := len(*conditions)
	*conditions = slices.DeleteFunc(*conditions, func(condition Condition) bool { return condition.Type == conditionType })
	return len(*conditions) != before
}
