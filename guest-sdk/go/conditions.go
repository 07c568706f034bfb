package sdk

import (
	"slices"
	"time"
)

// Condition is a status condition, with the JSON of metav1.Condition.
type Condition struct {
	Type string `json:"type"`
	// "True", "False" or "Unknown".
	Status             string    `json:"status"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
	// An UpperCamelCase identifier.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// ConditionStatus returns "True" or "False".
func ConditionStatus(holds bool) string {
	if holds {
		return "True"
	}
	return "False"
}

// SetCondition adds or updates a condition, and returns whether the list changed; if not, the status need not be written. LastTransitionTime
// becomes now (time.Now()) only when the condition's status changes.
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

// RemoveCondition removes a condition, and returns whether it existed.
func RemoveCondition(conditions *[]Condition, conditionType string) bool {
	before := len(*conditions)
	*conditions = slices.DeleteFunc(*conditions, func(condition Condition) bool { return condition.Type == conditionType })
	return len(*conditions) != before
}
