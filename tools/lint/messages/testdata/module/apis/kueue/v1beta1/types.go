package v1beta1

type AdmissionCheckState struct{ Name, State, Message string }
