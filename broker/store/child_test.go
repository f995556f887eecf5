package store

const childRole = "GUARD_TEST_STORE_CHILD"

func child(string) int { return 0 }
