"""Users' own tasks and data: functions and objects, checked and adapted."""
