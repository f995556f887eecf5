package audit

const childRole = "GUARD_TEST_AUDIT_CHILD"

func child(string) {}
