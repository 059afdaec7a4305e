"""What people read: tables, pages, cards; and models to take away."""
