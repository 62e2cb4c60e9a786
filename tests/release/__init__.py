"""What is handed to users: the wheel, the packages beside it, and what is said of them."""
