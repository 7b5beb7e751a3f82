"""HTML pages and charts of races, studies, the teach page and the dashboard."""
