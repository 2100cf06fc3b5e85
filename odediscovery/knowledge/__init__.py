"""What a user knows of the law: from statements to constraints."""
