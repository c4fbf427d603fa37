package v1

type Condition struct{ Type, Reason, Message string }

type Status struct{ Message string }
