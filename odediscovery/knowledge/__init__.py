"""Prior knowledge of the user about the law: statements as constraints."""
