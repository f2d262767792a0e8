"""What people look at: the report page, videos, previews, and what goes on inside an agent."""
